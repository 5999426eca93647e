"""GRPO of TRL teaches a tiny random model to write zeros; the hook reports, saves and resumes."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

import di_orchestrator as di
from di_orchestrator import hooks

LENGTH = 8
WORDS = ("<pad>", "<eos>", *"0123456789")


def main() -> None:
    """Train for as many steps as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-every", type=float, default=60, help="seconds")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    with di.training(save_every=arguments.save_every) as run:
        callback = hooks.transformers(run)
        config = GRPOConfig(
            output_dir=str(run.checkpoint.folder or "out"),
            save_strategy="no",
            max_steps=arguments.steps,
            logging_steps=1,
            per_device_train_batch_size=8,
            num_generations=8,
            max_completion_length=LENGTH,
            learning_rate=1e-2,
            report_to=[],
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        )
        tokenizer = digits()
        trainer = GRPOTrainer(
            tiny(len(tokenizer)),
            share_of_zeros,
            config,
            train_dataset=Dataset.from_dict({"prompt": [str(each) for each in range(100)]}),
            processing_class=tokenizer,
            callbacks=[callback],
        )
        last = callback.resume_from
        print(f"continues from {last}" if last else "starts", flush=True)
        trainer.train(resume_from_checkpoint=last)


def share_of_zeros(completions: list[str], **_: Any) -> list[float]:
    """The reward of each completion."""
    return [text.count("0") / LENGTH for text in completions]


def tiny(words: int) -> Any:
    """A model of one layer, not trained."""
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1}
    config = GPT2Config(vocab_size=words, n_positions=32, n_embd=32, n_layer=1, n_head=2, **special)
    return GPT2LMHeadModel(config)


def digits() -> Any:
    """A tokenizer that knows digits."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=WORDS[0], eos_token=WORDS[1], padding_side="left"
    )


if __name__ == "__main__":
    main()
