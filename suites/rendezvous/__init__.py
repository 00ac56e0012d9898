"""Rendezvous: ranks find each other and form one world."""
