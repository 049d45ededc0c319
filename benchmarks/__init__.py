"""The speed of aspecthook, beside hand-written code and beside other libraries: ``python -m benchmarks --help``."""
