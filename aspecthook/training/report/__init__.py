"""The record of a run's numbers, and the pages and plots made of it."""
