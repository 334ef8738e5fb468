"""`python -m depthrank` is the command `depthrank`."""

from depthrank.cli.main import main

if __name__ == "__main__":
    main()
