"""Leaders that are frozen while jobs start; README.md of the folder above says how."""
