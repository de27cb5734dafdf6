"""Models that reason with tools, trained: on chats that the search's successes tell, then with the simulator as judge.

>>> from hipsynth.tuning.reason.sft import train_on_chats      # supervised, on the folder of `synth traces`
>>> from hipsynth.tuning.reason.grpo import train_with_grpo  # GRPO: the reward is a verified speed-up
>>> from hipsynth.tuning.reason.local_model import LocalModel          # a trained model in place of an endpoint
"""
