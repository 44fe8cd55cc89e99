"""Code shared between lessons: costs, efficiency, recorded results and figures."""
