"""How the checker reads code: trees and names, what is installed, and what has to do with precision."""
