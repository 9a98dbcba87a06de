"""One file a migration, oldest first. What has been released is never changed."""
