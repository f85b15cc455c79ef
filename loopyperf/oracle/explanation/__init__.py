"""What is known of a kernel's time on some devices, put together: what a report shows, on paper or in a terminal."""
