"""Page Glossary: the technical terms of the dashboard, to read and to search."""
