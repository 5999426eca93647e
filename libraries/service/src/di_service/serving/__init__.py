"""HTTP fronts that no client can hold up: uvicorn's protocol with bounds, Flask in threads."""
