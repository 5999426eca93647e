"""CartPole by IMPALA: one learner, and many small collectors that are a little behind it."""
