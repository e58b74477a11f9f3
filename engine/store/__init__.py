"""Storage: runs and their records in a database, published results as files."""
