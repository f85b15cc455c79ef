"""``python -m loopyperf``: the command line, where the script is not on the path."""

from loopyperf.cli import main

if __name__ == "__main__":
    main()
