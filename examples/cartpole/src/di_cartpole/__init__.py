"""CartPole by evolution strategies: learner, collectors and evaluator as tasks of a DIJob."""
