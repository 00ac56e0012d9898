"""Programs that run inside pods. They import each other's shared files by name, as scripts of one folder do.

In a pod, and run by hand, they find them beside themselves; imported from this package they find them in its folder.
"""

import sys

sys.path.extend(__path__)
