"""The record of a run and everything that is made from it: page, JUnit, failure text, verification."""
