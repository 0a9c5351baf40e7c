"""The program `function-modelplane`: imports its modules without garbage collection, then serves."""

import gc


def main() -> None:
    """Serves the function.

    Imported objects stay, and walking them for garbage took a tenth of the start.
    """
    gc.disable()
    from function.main import cli  # noqa: PLC0415  # imported without collection

    cli()
