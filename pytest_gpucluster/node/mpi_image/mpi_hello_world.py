"""Each rank of an MPI world greets: the program that the documented MPI manifest runs."""

from mpi4py import MPI

world = MPI.COMM_WORLD
host, rank, size = MPI.Get_processor_name(), world.Get_rank(), world.Get_size()
print(f"Hello world from processor {host}, rank {rank} out of {size} processors", flush=True)
