"""Jobs with a coordinator: its pod alone says where the job stands, all others come and go."""
