"""The provider host on machines that are made up."""
