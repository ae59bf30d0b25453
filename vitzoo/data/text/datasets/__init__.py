"""Text datasets known by name, each read from the files of a package that anybody can install."""
