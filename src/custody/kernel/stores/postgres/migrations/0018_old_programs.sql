-- A program of before the names that is still open when this is applied does not know the column, and what it
-- acknowledged was refused for good later: it now fails before it acknowledges.

alter table job alter column by drop default;
alter table schedule alter column by drop default;
