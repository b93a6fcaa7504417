"""One verification as text, HTML, JSON, JUnit XML and GitHub annotations."""
