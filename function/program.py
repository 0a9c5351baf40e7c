"""The program `function-modelplane`: reads its modules with nothing collected meanwhile, and hands over."""

import gc


def main() -> None:
    """Serve the function.

    What is imported stays: looking through it for garbage again and again took a tenth of the start.
    """
    gc.disable()
    from function.main import cli  # noqa: PLC0415  # after that

    cli()
