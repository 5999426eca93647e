"""What every service needs beside its own work: settings and logs."""
