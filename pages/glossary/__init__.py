"""Glossary: every term of art in plain words, to read and to search."""
