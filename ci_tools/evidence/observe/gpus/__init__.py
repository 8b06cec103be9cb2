"""For which GPUs an observed build compiles: what its compilers are told, and what it decides by itself."""
