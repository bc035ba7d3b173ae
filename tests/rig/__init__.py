"""The rig: the real servers that the tests talk to, private to one test run, on loopback, ended by pid."""
