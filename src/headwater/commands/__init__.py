"""What people type, a family of commands to a module. They parse, call and print; they decide nothing."""
