"""From a model's logits of the next token to whole texts: sampling and beam search, ids in and ids out.

The models' own `generate`, `vitzoo generate` and the evaluators all write with what is here.
"""
