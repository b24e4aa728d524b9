"""The second paper: multi-head softmax attention on several regression tasks."""
