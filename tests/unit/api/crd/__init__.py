"""The definition, and what follows from the declarations of fields."""
