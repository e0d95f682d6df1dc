"""What plug-ins and events written for DataHub Actions need, with DataHub's package installed or without it."""
