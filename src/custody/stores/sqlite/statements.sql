-- What only SQLite says this way.

-- name: settings
-- What our promises rest on, as it is set now; every database keeps this under its own names.
select 'journal_mode', journal_mode from pragma_journal_mode
union all select 'synchronous', cast(synchronous as text) from pragma_synchronous
