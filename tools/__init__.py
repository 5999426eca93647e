"""Programs for developers: benchmarks, generated documents, fault plans, fuzzing and soak runs."""
