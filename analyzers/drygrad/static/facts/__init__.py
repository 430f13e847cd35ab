"""What is known of each expression: an abstract interpretation of the file, function by function."""
