"""What every SQL database needs: statements by name, migrations, group commit."""
