"""Programs of an image for MPI jobs: ssh and sshd by asyncssh, and the hello that the documents run.

mpiexec itself comes with Open MPI's own package. The words of ssh and sshd are OpenSSH's as far as people search for
them, so that what a member prints is read alike wherever it runs.
"""
