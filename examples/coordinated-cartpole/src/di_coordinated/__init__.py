"""CartPole by policy gradient: a coordinator that asks for its collectors while it trains."""
