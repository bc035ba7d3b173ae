"""custody doctor: one file per thing that it looks at; `report` is the door."""
