"""What several lessons share: costs, efficiency, recorded results, and what figures have in common."""
