"""What users call: questions in, estimates out."""
