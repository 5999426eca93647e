"""HTTP servers that no client can block: uvicorn's protocol with bounds, Flask in threads."""
