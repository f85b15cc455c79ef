"""``python -m loopyperf`` runs the command line where the script is not on the PATH."""

from loopyperf.cli import main

if __name__ == "__main__":
    main()
