"""python -m custody"""

from custody.cli import main

main()
