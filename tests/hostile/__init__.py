"""What hostile owners of repositories, robots and tasks try, each against the real thing.

A test is one try, or a family of them: it carries `@pytest.mark.proves("P5")` and tells how many tries it made and how
many got through (`tell("", tries=1, got_through=0)`).
"""
