"""A small language model learns to add by GRPO: learners, engines, a judge, an evaluator."""
