"""`tesched doctor`: whether everything is in place, one module for each part of a site."""
