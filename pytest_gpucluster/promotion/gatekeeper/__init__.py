"""The gatekeeper: a controller of one AdmissionCheck of Kueue that vouches for a cluster only while evidence does."""
