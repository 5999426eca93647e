"""Operations on jobs with tasks: list addresses, scale, store profilings."""
