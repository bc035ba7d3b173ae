-- The statements of the channels application, in the dialect that SQLite and PostgreSQL share.

-- name: ch_take_slot
-- The next place in one line for everybody: evenly spaced, none saved up while nobody asks.
insert into counter (name, value) values (:name, :now + :gap)
on conflict (name) do update
set value = case when counter.value > :now then counter.value else :now end + :gap
returning value - :gap - :now

-- name: ch_pause
insert into counter (name, value) values (:name, :now + :pause)
on conflict (name) do update
set value = case when counter.value > :now + :pause then counter.value else :now + :pause end
