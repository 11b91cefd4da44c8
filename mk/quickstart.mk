# The main job on an embedded default.
