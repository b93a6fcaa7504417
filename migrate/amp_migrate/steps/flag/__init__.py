"""`--add-flag`: an option of the script that switches all that was moved."""
