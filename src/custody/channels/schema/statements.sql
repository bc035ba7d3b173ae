-- The statements of the channels application, in the dialect that SQLite and PostgreSQL share.

-- name: ch_take_slot
-- The next place in one line for everybody: evenly spaced, none saved up while nobody asks. A time that is further off
-- than anybody is ever told to wait was written by a clock that was ahead: it is not believed.
insert into counter (name, value) values (:name, :now + :gap)
on conflict (name) do update
set value = case when counter.value > :now and counter.value <= :now + :most then counter.value else :now end + :gap
returning value - :gap - :now

-- name: ch_pause
insert into counter (name, value) values (:name, :now + :pause)
on conflict (name) do update
set value = case when counter.value > :now + :pause and counter.value <= :now + :most then counter.value
                 else :now + :pause end

-- name: ch_note
-- A number about a channel that is no change of anything: it has no history.
insert into counter (name, value) values (:name, :value)
on conflict (name) do update set value = :value

-- name: ch_notes
-- Names are compared as they are, whatever order a database puts letters in.
select name, value from counter where substr(name, 1, length(:folder)) = :folder

-- name: ch_forget
delete from counter where name = :name
